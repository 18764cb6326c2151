"""Functions in Python that come with Rowtide, for CREATE FUNCTION (docs/sql/functions.md).

They are written as a user writes them: nothing here imports another part of Rowtide.
"""
