"""Where a pipeline stands: positions, bounds, fencing epochs, decisions, errors and snapshots.

Everything is kept in the database that the output goes to, and written in the
transaction of the output (law 5). ``ledger.Ledger`` is what the runtime asks;
``database.DatabaseLedger`` is its implementation.
"""
