/*
 * The variables of OpenTelemetry's SDKs (opentelemetry.io/docs/specs/otel/configuration/
 * sdk-environment-variables, opentelemetry.io/docs/specs/otel/protocol/exporter), read as the SDK
 * of Python reads them; tests/golden/otel.json has its results for many texts. Pure, except
 * fr_otel_wanted() and fr_otel_resource(), which read this process's environment.
 */
#ifndef FR_NOTIFY_OTEL_H
#define FR_NOTIFY_OTEL_H

#include "engine/base/str.h"

#include <jansson.h>

/* The headers of "name=value,name=value" (OTEL_EXPORTER_OTLP_HEADERS): {name: value}, names in
 * small letters; of entries with the same name the last counts. An invalid entry, or one that HTTP
 * cannot carry, is omitted and counted in *bad. NULL: no memory. */
json_t *fr_otel_headers(const char *list, size_t *bad);
/* The attributes of "key=value,key=value" (OTEL_RESOURCE_ATTRIBUTES): {key: value}. */
json_t *fr_otel_attributes(const char *list);
/* Appends the address for traces: base, the address for all signals, with path added to the end of
 * its path, in front of its query. */
void fr_otel_endpoint(const char *base, const char *path, struct fr_buf *out);
/* Whether traces are sent: OTEL_SDK_DISABLED and OTEL_TRACES_EXPORTER do not forbid it. */
bool fr_otel_wanted(void);
/* Adds the attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME to base, in place of those
 * with the same key. Takes base and returns it. */
json_t *fr_otel_resource(json_t *base);

#endif
