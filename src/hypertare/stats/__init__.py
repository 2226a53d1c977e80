"""Statistics: pure functions, each with its source. The whole stands in `docs/method.md`."""
