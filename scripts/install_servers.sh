#!/bin/sh
# The servers that `make verify` talks to. On Debian as root they are installed; elsewhere it says how.
postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; }

if postgres; then exit 0; fi

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
  echo "Installing a Postgres server for the tests..."
  apt-get update -qq
  apt-get install -y -qq postgresql >/dev/null
  if postgres; then exit 0; fi
fi

cat >&2 <<TEXT
\`make verify\` tests against a real Postgres server, of which only the programs are needed (initdb, postgres):
  Debian, Ubuntu:  sudo apt-get install postgresql
  Fedora:          sudo dnf install postgresql-server
  macOS:           brew install postgresql
TEXT
exit 1
