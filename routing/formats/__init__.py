"""One codec per caller format, and the schemas they share."""
