#!/bin/sh
# Run a class of Kafka with the variables that Kafka's own script has.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} ${KAFKA_JVM_PERFORMANCE_OPTS:-} \
    -Dlog4j2.configurationFile="${LOG4J_CONFIG:-/etc/kafka/docker/tools-log4j2.yaml}" ${KAFKA_OPTS:-} -cp '/opt/kafka/libs/*' "$@"
