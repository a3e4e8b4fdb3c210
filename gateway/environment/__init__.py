"""What an operator may set in the environment. Each setting is declared once, with its meaning,
type, default and bounds; `docs/reference/settings.md` is written from here."""
