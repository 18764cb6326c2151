"""What the catalog of PostgreSQL says of tables: queries, and the words for what they find."""

from __future__ import annotations

from rowtide_connectors.rdbms.table import VIEW_FAULT

PATH = "select nspname from unnest(current_schemas(false)) with ordinality as s(nspname, n) order by n"
SCHEMA = "select has_schema_privilege(oid, 'USAGE') from pg_namespace where nspname = %s::text"
SCHEMAS_WITH = """
select nspname from pg_class join pg_namespace n on n.oid = relnamespace
where relname = %s::text and nspname = any (current_schemas(false)) order by nspname
"""
OID = """
select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace
where relname = %s::text and nspname = %s::text
"""
LACKING = """
select attname from pg_attribute
where attrelid = %(table)s and attname = any (%(names)s::text[])
    and not has_column_privilege(attrelid, attnum, %(right)s::text)
order by attnum
"""
LACKING_SEQUENCES = """
select distinct s.relname from pg_attrdef d
join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
join pg_depend p on p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and p.refclassid = 'pg_class'::regclass
join pg_class s on s.oid = p.refobjid
where adrelid = %(table)s and attname <> all (%(names)s::text[])
    and case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'USAGE, UPDATE') end
"""
FAULTS = """
select relkind = 'v' and pg_relation_is_updatable(c.oid, true) & 8 = 0, relkind = 'm',
    relkind not in ('r', 'p', 'v', 'f', 'm'),
    exists (select from pg_rewrite where ev_class = c.oid and ev_type in ('2', '3')),
    relkind = 'r' and relreplident <> 'f'
    and not exists (
        select from pg_index where indrelid = c.oid
        and (relreplident = 'd' and indisprimary or relreplident = 'i' and indisreplident)
    )
    and exists (
        select from pg_publication_tables t join pg_publication p using (pubname)
        where schemaname = nspname and tablename = relname and pubupdate
    )
from pg_class c join pg_namespace n on n.oid = relnamespace where c.oid = %s
"""
MAY_CREATE = "select has_schema_privilege(%s::text, 'CREATE')"
COLUMNS_OF = """
select attname, (
    with recursive base(oid, modifier) as (
        select atttypid, atttypmod
        union all
        select typbasetype, typtypmod from base join pg_type t on t.oid = base.oid where typtype = 'd'
    )
    select case typtype when 'e' then 'enum ' else '' end || format_type(base.oid, modifier)
    from base join pg_type t on t.oid = base.oid where typtype <> 'd'
), not attnotnull, atthasdef or attidentity <> '', (
    select collname || ', in which different texts are equal; keys need a deterministic one'
    from pg_collation c where c.oid = attcollation and not collisdeterministic
), attgenerated <> '' or attidentity = 'a'
from pg_attribute where attrelid = %s and attnum > 0 and not attisdropped order by attnum
"""
UNIQUE_OF = """
select array(
    select attname::text from pg_attribute
    where attrelid = indrelid and attnum = any (indkey[0:indnkeyatts - 1])
)
from pg_index
where indrelid = %s and indisunique and indisvalid and indimmediate and indpred is null and indexprs is null
"""

DEFERRABLE = """
select format('the key of constraint "%%s" is DEFERRABLE, which ON CONFLICT does not take', conname) from pg_constraint
where conrelid = %s and contype in ('p', 'u') and condeferrable and not exists (
    select from pg_index where indrelid = conrelid and indisunique and indimmediate and indisvalid
)
"""
JUDGES = """
select exists (select from pg_constraint where conrelid = %(table)s and contype in ('c', 'f', 'x'))
    or exists (
        select from pg_attribute join pg_type t on t.oid = atttypid
        where attrelid = %(table)s and not attisdropped and typtype = 'd'
    )
    or exists (select from pg_constraint where confrelid = %(table)s)
    or exists (select from pg_trigger where tgrelid = %(table)s and not tgisinternal)
    or exists (select from pg_constraint where conrelid = %(table)s and condeferrable)
    or (select count(*) from pg_index where indrelid = %(table)s and indisunique) > 1
"""

FOREIGN_KEYS = """
select conname, own.attname, nspname, relname, other.attname
from pg_constraint
join unnest(conkey, confkey) with ordinality as u(own, other, n) on true
join pg_attribute own on own.attrelid = conrelid and own.attnum = u.own
join pg_attribute other on other.attrelid = confrelid and other.attnum = u.other
join pg_class c on c.oid = confrelid join pg_namespace s on s.oid = relnamespace
where contype = 'f' and conrelid = %s order by conname, n
"""

SAID = (VIEW_FAULT, "it is a materialized view", "it is not a table")
SAID_OF_KEYS = (
    "it has a rule for INSERT or UPDATE, with which ON CONFLICT cannot be used",
    "it is published and has no replica identity, so that no row of it can be changed: add a primary key, or ALTER "
    "TABLE .. REPLICA IDENTITY FULL",
)
"""Why a table cannot be written, in the order of FAULTS."""
