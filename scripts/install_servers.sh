#!/bin/sh
# The servers that `make verify` and `make demo-kafka` talk to: a Postgres server of the system, and the jars of a
# Kafka broker in a cache folder. On Debian as root they are installed; elsewhere it says how.
version=4.3.1
folder="$(cd "$(dirname "$0")" && pwd)"
jars="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/kafka-$version/jars"
missing=0

postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1; }
kafka() { ls "$jars"/kafka_*.jar >/dev/null 2>&1; }
is_debian_root() { [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ]; }

# A folder that is complete has its final name, so a download that was cut short is not taken for one.
bring_kafka() {
  echo "Bringing a Kafka broker for the tests..."
  rm -rf "$jars.part" && mkdir -p "$jars.part"
  mvn -q -B -f "$folder/kafka/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$jars.part" && mv "$jars.part" "$jars"
}

if ! postgres && is_debian_root; then
  echo "Installing a Postgres server for the tests..."
  apt-get update -qq
  apt-get install -y -qq postgresql >/dev/null
fi
if ! postgres; then
  missing=1
  cat >&2 <<TEXT
A real Postgres server is needed, of which only the programs are used (initdb, postgres):
  Debian, Ubuntu:  sudo apt-get install postgresql
  Fedora:          sudo dnf install postgresql-server
  macOS:           brew install postgresql
TEXT
fi

if ! kafka && ! command -v mvn >/dev/null 2>&1 && is_debian_root; then
  echo "Installing Maven, which brings a Kafka broker for the tests..."
  apt-get update -qq
  apt-get install -y -qq maven >/dev/null
fi
if ! kafka && command -v mvn >/dev/null 2>&1; then bring_kafka; fi
if ! kafka; then
  missing=1
  cat >&2 <<TEXT
A real Kafka broker is needed. Maven brings it, into $jars:
  Debian, Ubuntu:  sudo apt-get install maven
  Fedora:          sudo dnf install maven
  macOS:           brew install maven
TEXT
fi
# Hosts of their own for the tests between machines. Without root there are none, and the tests say so.
if ! command -v ip >/dev/null 2>&1 && is_debian_root; then
  echo "Installing iproute2, which makes hosts for the tests..."
  apt-get update -qq
  apt-get install -y -qq iproute2 >/dev/null
fi
exit $missing
