"""GROUP BY, aggregates and changelogs of groups."""
