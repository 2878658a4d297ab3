"""Linear algebra that has never heard of networks: symmetric operators that know their structure.

Importing this package enters the rules of every structure into the tables of `verbs.py`.
"""

from paraboloid.operators import algebra, factorise, logdet, root, solve, spectrum, trace
