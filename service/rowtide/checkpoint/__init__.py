"""The checkpoint of a pipeline: positions, bounds, fencing epochs, decisions, errors and snapshots.

Everything is in the database of the output, and written in the transaction of
the output (law 5). ``ledger.Ledger`` is the interface for the runtime;
``database.DatabaseLedger`` implements it.
"""
