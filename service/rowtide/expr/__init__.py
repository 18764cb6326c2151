"""Scalar expressions: one typed tree, evaluated over columns or over one row.

* ``tree``: the typed tree that the planner builds;
* ``functions``: every scalar function and operator, declared once: how it
  types, how it computes columns, how it computes one row;
* ``columnar``: tree -> function of a tray; ``rowwise``: tree -> function of a row.
"""
