"""A page in the browser that shows runs: `a3cd dashboard`."""
