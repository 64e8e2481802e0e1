"""Who may do what: roles and tokens, the guard in front of every request, limits, and the audit of every change."""
