#!/bin/sh
# Spark runs on Java 17 or newer. Find it; on Debian as root, install it; elsewhere say how.
version() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }

found=$(version)
if [ -n "$found" ] && [ "$found" -ge 17 ]; then exit 0; fi

if [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ]; then
  echo "Java 17 or newer was not found: installing openjdk-17-jre-headless..."
  apt-get update -qq
  apt-get install -y -qq openjdk-17-jre-headless >/dev/null || apt-get install -y -qq default-jre-headless >/dev/null
  found=$(unset JAVA_HOME; version)
  if [ -n "$found" ] && [ "$found" -ge 17 ]; then exit 0; fi
fi

cat >&2 <<TEXT
Headgate runs on Apache Spark, which needs Java 17 or newer; found: ${found:-none}.
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora:          sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17
If it is installed elsewhere, set JAVA_HOME to its folder.
TEXT
exit 1
