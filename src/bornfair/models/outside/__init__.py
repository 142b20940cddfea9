"""How is a model asked that cannot be read? As an object, a graph, a command or an endpoint: rows in, decisions out."""
