"""A deterministic simulation of the whole service: processes over one broker and one database, with virtual time.

``world`` runs a ``case``: the product's own code, whose every call goes through one place, where it may die, break
or be suspended. ``invariants`` looks at the database after each commit and compares it with the ``model``, a run
without faults. ``campaign`` draws many cases and shortens one that fails. ``mutants`` are defects that it finds.

``PYTHONPATH=tests python -m simulation --help`` runs a case again, or many.
"""
