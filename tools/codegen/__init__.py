"""Code generators: both sides of the operator ABI and the adapter's operator wrappers come from tables."""
