"""The relational operators: columnar, compiled, one a file.

``contract`` defines operators; ``registry`` returns the operator of a plan
node, compiled or as its row-at-a-time reference. Nothing else is public.
"""
