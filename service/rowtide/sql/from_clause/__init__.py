"""The FROM clause: joins, and sub-queries in their conditions."""
