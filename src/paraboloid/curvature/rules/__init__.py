"""One rule per kind of node: how a use becomes row and column statistics of a stored tensor."""
