"""The relational operators: columnar, compiled, one a file.

``contract`` says what an operator is; ``registry`` gives the operator of a plan
node, compiled or as its row-at-a-time reference. Nothing else is public.
"""
