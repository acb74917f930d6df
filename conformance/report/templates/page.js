"use strict";
// Everything that a view shows follows from `state`, and `state` is the address's fragment: #release=0.20.1&a=...
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { scenarios, columns, seen, strings, sets, differences, migration } = data;
  const WORST = ["unstable", "differs", "deviates", "conforms", "skipped"];
  const SYMBOL = data.symbols;
  const FIELDS = ["status", "outcome", "phase", "type", "message", "evidence", "linker", "engine", "warnings", "reason", "expected", "image"];
  const numberOf = new Map(columns.map((c, i) => [c.name, i]));
  const scenarioOf = new Map(scenarios.map((s, i) => [s.id, i]));
  const families = [...new Set(scenarios.map((s) => s.family))];
  const form = document.querySelector("#filters form");
  const dialog = document.getElementById("detail");
  const $ = (id) => document.getElementById(id);
  const field = (name) => document.querySelector(`[name="${name}"]`);
  const NAMES = [...document.querySelectorAll("[name]")].map((f) => f.name).filter((n) => n !== "viewport");
  let state = {};

  // -- small tools ------------------------------------------------------------------------------
  // Texts of records are only ever set as text, never as markup.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }
  const look = (number) => Object.fromEntries(FIELDS.map((name, i) => [name, strings[seen[number][i]]]));
  const statusOf = (number) => (number ? strings[seen[number][0]] : "");
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const verdictOf = (c) => (state.profile === "core" ? c.core : c.all);

  // -- the address ------------------------------------------------------------------------------
  function read() {
    const hash = location.hash.slice(1);
    if (hash && !hash.includes("=")) return { at: decodeURIComponent(hash) };
    return Object.fromEntries([...new URLSearchParams(hash)].filter(([, v]) => v));
  }
  function write(push = false) {
    const address = "#" + new URLSearchParams(Object.entries(state).filter(([, v]) => v));
    if (address !== location.hash && !(address === "#" && !location.hash)) {
      history[push ? "pushState" : "replaceState"](null, "", address === "#" ? location.pathname + location.search : address);
    }
  }
  function adopt() {
    state = read();
    for (const name of NAMES) {
      const f = field(name);
      if (f.type === "checkbox") f.checked = Boolean(state[name]);
      else if (f.tagName === "SELECT") {
        const usual = [...f.options].find((o) => o.defaultSelected) || f.options[0];
        const known = [...f.options].some((o) => o.value === state[name]);
        f.value = known ? state[name] : USUAL[name] ?? usual?.value ?? "";
      } else f.value = state[name] || "";
    }
    render();
    showDetail();
    if (state.at) arrive(state.at);
  }
  function arrive(id) {
    const target = $(id);
    if (!target) return;
    for (let d = target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    target.scrollIntoView();
    if (!target.matches("a,button,summary,[tabindex]")) target.tabIndex = -1;
    (target.tagName === "DETAILS" ? target.querySelector("summary") : target).focus({ preventScroll: true });
  }

  // -- filters ----------------------------------------------------------------------------------
  function shows(c) {
    const { environment, release, linker, driver, source } = c;
    const facts = { ...c.axes, environment, release, linker, driver, source, verdict: verdictOf(c).word };
    return Object.entries(facts).every(([name, value]) => !state[name] || state[name] === value);
  }
  function wanted(s) {
    return (state.profile !== "core" || s.profile === "core") && (!state.text || s.id.includes(state.text.toLowerCase()));
  }
  function render() {
    const shown = columns.map((c, i) => (shows(c) ? i : -1)).filter((i) => i >= 0);
    const rows = scenarios.map((s, i) => (wanted(s) ? i : -1)).filter((i) => i >= 0);
    paintRuns(new Set(shown));
    const left = heat(shown, rows);
    $("shown").textContent = `${shown.length} of ${plural(columns.length, "run")}, ${left} of ${plural(scenarios.length, "scenario")}`;
    sideBySide(rows);
    changes();
  }
  function paintRuns(shown) {
    for (const element of document.querySelectorAll("[data-run]")) {
      const c = columns[element.dataset.run], verdict = verdictOf(c);
      element.hidden = !shown.has(Number(element.dataset.run));
      if (element.tagName === "A") {
        element.className = `v ${verdict.word}`;
        const word = element.closest("#matrix") ? verdict.word : c.environment;
        element.querySelector(".word").textContent = `${SYMBOL[verdict.word]} ${word}`;
      }
    }
    for (const figure of document.querySelectorAll("[data-pair]")) {
      figure.hidden = !figure.dataset.pair.split(" ").some((i) => shown.has(Number(i)));
    }
    const filtered = shown.size !== columns.length;
    for (const row of document.querySelectorAll("#matrix tbody tr, #linkers tbody tr")) {
      row.hidden = filtered && !row.querySelector("[data-run]:not([hidden])");
    }
    for (const cell of document.querySelectorAll("[data-release]")) {
      cell.hidden = Boolean(state.release) && cell.dataset.release !== state.release;
    }
  }

  // -- the heat map -----------------------------------------------------------------------------
  function disagree(row, shown) {
    const numbers = new Set(shown.map((c) => columns[c].facts[row]).filter((f) => f >= 0));
    return numbers.size > 1 && new Set(shown.map((c) => outcomeKey(columns[c].rows[row]))).size > 1;
  }
  function outcomeKey(number) {
    return number ? seen[number].slice(0, 4).join(" ") : "";
  }
  function heat(shown, rows) {
    const left = rows.filter((row) => (!state.apart || disagree(row, shown)) &&
      (!state.status || shown.some((c) => statusOf(columns[c].rows[row]) === state.status)));
    const open = new Set((state.open || "").split(",").filter(Boolean));
    const head = make("tr", {}, make("th", { scope: "col" }, "family"), ...shown.map((c) =>
      make("th", { scope: "col", class: "column" }, make("a", { href: `#run-${c}` }, columns[c].name))));
    const body = [];
    for (const family of families) {
      const members = left.filter((row) => scenarios[row].family === family);
      if (members.length) body.push(familyRow(family, members, shown, open.has(family)));
      if (members.length && open.has(family)) body.push(...members.map((row) => scenarioRow(row, shown)));
    }
    if (!body.length) body.push(make("tr", {}, make("td", { colspan: shown.length + 1 }, "Nothing passes the filters.")));
    $("heat").tHead.replaceChildren(head);
    $("heat").tBodies[0].replaceChildren(...body);
    rove($("heat").querySelector("tbody td button"));
    return left.length;
  }
  function familyRow(family, members, shown, open) {
    const toggle = make("button", { type: "button", "aria-expanded": String(open), "data-family": family }, `${open ? "▾" : "▸"} ${family} `, make("small", {}, String(members.length)));
    return make("tr", {}, make("th", { scope: "row" }, toggle), ...shown.map((c) => {
      const counts = {};
      for (const row of members) { const s = statusOf(columns[c].rows[row]); if (s) counts[s] = (counts[s] || 0) + 1; }
      const worst = WORST.find((s) => counts[s]);
      const words = WORST.filter((s) => counts[s]).map((s) => `${counts[s]} ${s}`).join(", ") || "not run";
      if (!worst) return make("td", {}, make("span", { title: words }, "·"));
      const label = `${family}, ${columns[c].name}: ${words}`;
      return make("td", {}, make("button", { type: "button", class: worst, title: label, "aria-label": label, tabindex: "-1", "data-family": family }, `${SYMBOL[worst]} ${counts[worst]}`));
    }));
  }
  function scenarioRow(row, shown) {
    const s = scenarios[row];
    return make("tr", { class: "scenario" }, make("th", { scope: "row", title: s.title }, s.id.slice(s.family.length + 1)), ...shown.map((c) => {
      const status = statusOf(columns[c].rows[row]);
      if (!status) return make("td", {}, make("span", { title: "not run" }, "·"));
      const label = `${s.id}, ${columns[c].name}: ${status}`;
      return make("td", {}, make("button", { type: "button", class: status, title: label, "aria-label": label, tabindex: "-1", "data-scenario": row, "data-column": c }, SYMBOL[status]));
    }));
  }
  // One cell of the map is in the tab order; arrow keys go from there.
  function rove(button) {
    if (!button) return;
    for (const b of $("heat").querySelectorAll('tbody td button[tabindex="0"]')) b.tabIndex = -1;
    button.tabIndex = 0;
  }
  function step(event) {
    const from = event.target.closest("#heat tbody button");
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!from || !by) return;
    event.preventDefault();
    const cell = from.closest("td,th"), rows = [...$("heat").tBodies[0].rows];
    let r = rows.indexOf(cell.parentElement), c = cell.cellIndex, button = null;
    do { r += by[0]; c += by[1]; button = rows[r]?.cells[c]?.querySelector("button"); } while (rows[r]?.cells[c] && !button);
    if (button) { if (button.closest("td")) rove(button); button.focus(); }
  }

  // -- side by side -----------------------------------------------------------------------------
  function between(row, a, b) {
    const s = scenarios[row], fa = columns[a].facts[row], fb = columns[b].facts[row];
    return fa < 0 || fb < 0 ? null : sets[s.between[fa * Math.sqrt(s.between.length) + fb]];
  }
  function sideBySide(rows) {
    const a = numberOf.get(field("a").value), b = numberOf.get(field("b").value);
    const groups = new Map(), counts = { same: 0, onlyA: 0, onlyB: 0 };
    for (const row of rows) {
      const found = between(row, a, b);
      if (!found) { counts.onlyA += columns[a].facts[row] >= 0; counts.onlyB += columns[b].facts[row] >= 0; continue; }
      if (!found.length) counts.same += 1;
      for (const [difference, detail] of found) {
        if (!groups.has(difference)) groups.set(difference, []);
        groups.get(difference).push([row, strings[detail]]);
      }
    }
    const weight = (d) => data.weights.indexOf(differences[d][0]);
    const sorted = [...groups].sort((x, y) => weight(x[0]) - weight(y[0]) || y[1].length - x[1].length);
    const heading = `${plural(counts.same, "scenario")} the same; ${sorted.length ? plural(sorted.length, "kind") + " of difference" : "no difference"}` +
      (counts.onlyA ? `; ${counts.onlyA} only in A` : "") + (counts.onlyB ? `; ${counts.onlyB} only in B` : "") +
      (data.images ? "" : "; facts of images are left out of a page of this size") + ". Cosmetic ones are not shown.";
    const remarks = ["driver", "device"].filter((k) => columns[a][k] !== columns[b][k]).map((k) => `Another ${k}: ${columns[a][k] || "none"} and ${columns[b][k] || "none"}.`);
    const table = make("table", { class: "stack" }, make("thead", {}, make("tr", {}, ...["weight", "kind", "how many", "difference"].map((h) => make("th", { scope: "col", class: h === "how many" && "number" }, h)))),
      make("tbody", {}, ...sorted.map(([d, places]) => differenceRow(d, places, a, b))));
    $("sides").replaceChildren(...[heading, ...remarks].map((t) => make("p", {}, t)),
      ...(sorted.length ? [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences of A and B" }, table)] : []));
  }
  function differenceRow(d, places, a, b) {
    const [weight, kind, text] = differences[d];
    const list = make("ul", { class: "links" });
    const fill = () => {
      if (list.children.length) return;
      list.append(...places.map(([row, detail]) => make("li", {}, make("button", { type: "button", "data-scenario": row, "data-column": a, "data-with": b }, scenarios[row].id), detail ? ` ${detail}` : "")));
    };
    const details = make("details", {}, make("summary", {}, text), list);
    details.addEventListener("toggle", fill);
    return make("tr", {}, make("td", {}, make("span", { class: `v ${weight}` }, weight)), make("td", {}, kind), make("td", { class: "number", "data-label": "how many" }, String(places.length)), make("td", {}, details));
  }

  // -- the decision table -----------------------------------------------------------------------
  function changes() {
    const from = field("from").value, to = field("to").value, both = migration.seen[from] && migration.seen[to];
    const source = both ? migration.seen : migration.known;
    const before = source[from], after = source[to], groups = new Map();
    let compared = 0, changed = 0;
    migration.configurations.forEach((words, i) => {
      if (before[i] < 0 || after[i] < 0 || (state.settings && !words.includes(state.settings))) return;
      compared += 1;
      if (before[i] === after[i]) return;
      changed += 1;
      const key = `${before[i]} ${after[i]}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(words);
    });
    const sorted = [...groups].sort((x, y) => y[1].length - x[1].length);
    const where = both ? "As seen on the real packages by nox -s selection." : "As matrices/ say (the agreed rules, and known deviations); run nox -s selection to see it on the real packages.";
    const table = make("table", { class: "stack" }, make("thead", {}, make("tr", {}, ...["settings", from, to].map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...sorted.map(([key, words]) => {
        const [x, y] = key.split(" ").map((n) => migration.outcomes[n]);
        const cell = words.length === 1 ? make("span", {}, words[0]) : make("details", {}, make("summary", {}, `${words.length} configurations, such as ${words[0]}`), make("ul", {}, ...words.map((w) => make("li", {}, w))));
        return make("tr", {}, make("td", {}, cell), make("td", { "data-label": from }, x), make("td", { "data-label": to }, y));
      })));
    $("changes").replaceChildren(make("p", {}, `${changed} of ${compared} configurations that both releases have change. ${where}`),
      ...(sorted.length ? [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes of the decision table" }, table)] : []));
  }

  // -- one scenario -----------------------------------------------------------------------------
  function showDetail() {
    const row = scenarioOf.get(state.scenario), runs = [state.run, state.with].map((n) => numberOf.get(n)).filter((n) => n !== undefined);
    if (row === undefined || !runs.length) { if (dialog.open) dialog.close(); return; }
    const s = scenarios[row];
    $("detail-title").textContent = s.id;
    $("detail-about").textContent = `${s.title} (${s.profile})`;
    dialog.querySelector(".sides").replaceChildren(...runs.map((c) => side(row, c)));
    if (!dialog.open) dialog.showModal();
  }
  function side(row, c) {
    const column = columns[c], number = column.rows[row], ms = column.ms[row];
    const list = make("dl");
    const facts = number ? look(number) : { status: "not run" };
    if (ms) facts["link time"] = `${(ms / 100).toFixed(2)} ms`;
    for (const [name, value] of Object.entries(facts)) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
    const again = `${column.reproduce} --scenario ${scenarios[row].id}`;
    list.append(make("dt", {}, "again"), make("dd", {}, make("code", {}, again), " ", make("button", { type: "button", class: "copy", "data-copy": again }, "Copy")));
    return make("div", {}, make("h3", {}, column.name), list);
  }

  // -- what people do ---------------------------------------------------------------------------
  async function copy(button) {
    const text = button.dataset.copy === "address" ? location.href : button.dataset.copy, words = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling || button);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = words; }, 1500);
  }
  function set(name, value, push = false) {
    state[name] = value;
    write(push);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button"), link = event.target.closest('a[href^="#"]');
    if (link) {
      event.preventDefault();
      const to = decodeURIComponent(link.hash.slice(1));
      if (link.hash.includes("=")) Object.assign(state, Object.fromEntries(new URLSearchParams(link.hash.slice(1))));
      else state.at = to;
      write(true);
      if (link.hash.includes("=")) showDetail(); else arrive(to);
    } else if (button?.dataset.copy) copy(button);
    else if (button?.dataset.scenario) {
      Object.assign(state, { scenario: scenarios[button.dataset.scenario].id, run: columns[button.dataset.column].name, with: columns[button.dataset.with]?.name });
      write(true);
      showDetail();
    } else if (button?.dataset.family) toggleFamily(button);
    else if (button?.id === "swap") {
      [field("a").value, field("b").value] = [field("b").value, field("a").value];
      Object.assign(state, { a: field("a").value, b: field("b").value });
      write();
      render();
    } else if (button?.className === "close") dialog.close();
  });
  function toggleFamily(button) {
    const open = new Set((state.open || "").split(",").filter(Boolean)), family = button.dataset.family;
    if (!open.delete(family)) open.add(family);
    set("open", [...open].join(","));
    const column = button.closest("td,th").cellIndex;
    render();
    const row = [...$("heat").tBodies[0].rows].find((r) => r.cells[0].querySelector("button")?.dataset.family === family);
    row?.cells[column]?.querySelector("button")?.focus();
  }
  dialog.addEventListener("close", () => {
    if (!state.scenario) return;
    delete state.scenario; delete state.run; delete state.with;
    write();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("keydown", step);
  document.addEventListener("focusin", (event) => { if (event.target.matches("#heat tbody td button")) rove(event.target); });
  document.addEventListener("input", (event) => {
    const f = event.target;
    if (!f.name) return;
    set(f.name, f.type === "checkbox" ? (f.checked ? f.value : "") : f.value);
    render();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    // Fields follow from the address here too: what a browser does by itself comes only after this.
    event.preventDefault();
    for (const f of form.elements) if (f.name) delete state[f.name];
    write();
    adopt();
  });
  addEventListener("popstate", adopt);
  addEventListener("hashchange", adopt);

  // What the side-by-side and the migration show before anybody chooses.
  const USUAL = data.usual;
  if (matchMedia("(max-width: 700px)").matches) $("filters").open = false;
  // What is arrived at lies below the filters, which stay at the top on a wide screen.
  const cover = () => {
    const covered = getComputedStyle($("filters")).position === "sticky" ? $("filters").offsetHeight : 0;
    document.documentElement.style.scrollPaddingTop = `${covered + 8}px`;
  };
  new ResizeObserver(cover).observe($("filters"));
  cover();
  adopt();
})();
