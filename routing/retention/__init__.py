"""How long single requests stay on record."""
