#!/bin/sh
# opentelemetry-exporter-otlp-proto-http 1.45.2: an OTEL_EXPORTER_OTLP_ENDPOINT with a query gets /v1/traces behind the query, not behind
# its path, so that a collector that tells its users apart by a query is asked for another path.
. "$(dirname "$0")/lib.sh"
packages opentelemetry-exporter-otlp-proto-http==1.45.2

seen "http://collector.example/base?token=1/v1/traces" << 'END'
import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://collector.example/base?token=1"
print(OTLPSpanExporter()._endpoint)
END
