"""Faults on real parts: processes, sockets, three brokers, and PostgreSQL with a standby, while readings flow.

``world`` has the parts, and checks what the database holds against a batch recomputation. ``faults`` has one
class a fault. ``campaign`` lets them happen in an order drawn from a seed.

``PYTHONPATH=tests python -m chaos --help`` runs many, and prints the command that repeats a run that has failed.
"""
