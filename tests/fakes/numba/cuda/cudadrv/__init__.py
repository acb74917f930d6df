"""The fake's driver layer."""
