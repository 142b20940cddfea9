"""How much of the domain, and of a table, is treated unfairly, whom it affects most and where they are."""
