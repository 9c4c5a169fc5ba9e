#!/usr/bin/env python3
"""Records what OpenTelemetry's SDK for Python makes of its variables, for tests/unit/notify/notify_test.c.

    python3 tests/golden/otel.py    # with opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http 1.45.2

Of each text of headers it records what its exporter sends, of resource attributes what its resource has. The
texts are ours. Left out is what requests refuses to send: a control character in a value."""
import importlib.metadata
import json
import os

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector
from opentelemetry.util.re import parse_env_headers

HEADERS = ["a=1", "a=1,", ",a=1", "a=1,,b=2", "a=1,bad", "bad", "bad,a=1", "", ",", " ", "=1", "a=", "a= ", "a=1=2", "A=1",
           "a=1,A=2", "a=1,a=2", " a = 1 , b = 2 ", "a=1;b=2", "a=1;b=2,c=3", "a=x%20y", "a=x y", "a=x y%20z", "a=%41%4a%6B",
           "a=%4", "a=%", "a=%zz", "a=caf%C3%A9", "a=café", "café=1", "a b=1", "a:b=1", "a/b=1,c=1", "%61=1", "%41=1",
           "a=\"x\"", "a=\"x\",b=1", "a=x\\y,b=1", "a={x}", "(a)=1,b=1", "a\tb=1,c=1", "\ta\t=\t1\t,\tb=1", "a=1\n", "a=1\n,b=2",
           "a=x\ty,b=1", "Authorization=Bearer x.y-z_~+/=", "authorization=Basic%20YTpi", "authorization=Basic YTpi==,x=1",
           "a=%20x%20", "a=+", "a='x'", "a=1 ,b", "x-a|b~c^d=1", "a=1,b=2,c=3,a=4"]
ATTRIBUTES = ["a=1", "a=1,", "a=1,bad,b=2", "a=1=2", " a = x%20y ", "service.name=x", "A=1,a=2", "a=1,a=2", "a=caf%C3%A9", "a=x;y",
              "a=\"x\"", "a b=c d", "%61=1"]
ENDPOINTS = [{"all": "http://c:4318"}, {"all": "http://c:4318/"}, {"all": "http://c:4318//"}, {"all": "http://c:4318/base"},
             {"all": "http://c:4318/base/"}, {"all": "http://c/v1/traces"}, {"own": "http://t/x"}, {"own": "http://t/x/"},
             {"own": "http://t"}, {"all": "http://c", "own": "http://t/x?k=v"}, {"all": "http://c", "own": ""}]
ALL, OWN = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def endpoint(row):
    for name, key in ((ALL, "all"), (OWN, "own")):
        os.environ.pop(name, None)
        if key in row:
            os.environ[name] = row[key]
    return OTLPSpanExporter()._endpoint


def attributes(text):
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = text
    return dict(OTELResourceDetector().detect().attributes)


def main():
    doc = {"sdk": importlib.metadata.version("opentelemetry-sdk"),
           "headers": [[t, dict(parse_env_headers(t, liberal=True))] for t in HEADERS],
           "attributes": [[t, attributes(t)] for t in ATTRIBUTES],
           "endpoints": [[r, endpoint(r)] for r in ENDPOINTS]}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "otel.json"), "w") as f:
        json.dump(doc, f, indent=1, ensure_ascii=False)
        f.write("\n")


main()
