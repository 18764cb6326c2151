#!/bin/bash
# Start PostgreSQL as the image postgres does: the same variables, a first start that listens only at a socket, passwords
# over TCP, and trust at the socket and on loopback.
set -Eeuo pipefail
[ "${1:-}" = postgres ] || exec "$@"
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA" /var/run/postgresql
    chown -R postgres:postgres "$PGDATA" /var/run/postgresql
    chmod 00700 "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups -- "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    user=${POSTGRES_USER:-postgres} database=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
    : "${POSTGRES_PASSWORD:?Database is uninitialized and superuser password is not specified}"
    initdb --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") --auth-local=trust --auth-host=trust >/dev/null
    printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -p 5432" -w start >/dev/null
    [ "$database" = postgres ] || psql -v ON_ERROR_STOP=1 --username "$user" --no-password --dbname postgres -c "CREATE DATABASE \"$database\"" >/dev/null
    pg_ctl -D "$PGDATA" -m fast -w stop >/dev/null
    echo; echo 'PostgreSQL init process complete; ready for start up.'; echo
fi
exec "$@"
