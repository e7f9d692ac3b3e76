#!/bin/sh
# Brings the jars of Spark's own Kafka connector into a cache folder, for `python -m bench.kafka --spark-connector`.
# Nothing else needs them.
version=4.2.0
folder="$(cd "$(dirname "$0")" && pwd)"
jars="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/spark-kafka-$version/jars"

if ls "$jars"/spark-sql-kafka-*.jar >/dev/null 2>&1; then exit 0; fi
# A folder that is complete has its final name, so a download that was cut short is not taken for one.
rm -rf "$jars.part" && mkdir -p "$jars.part"
mvn -q -B -f "$folder/kafka/spark-connector/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
  -DoutputDirectory="$jars.part" && mv "$jars.part" "$jars"
