"""What people and other tools see of the records: a page, a summary, JUnit, annotations, JSON, badges (`nox -s report`)."""
