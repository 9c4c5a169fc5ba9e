#!/usr/bin/env python3
"""By hand: schema/openapi.json by openapi-spec-validator, then requests that schemathesis makes from it,
against a host. Both are Python packages, in an environment outside of this tree.
usage: api_outside.py BUILD ENVIRONMENT [EXAMPLES]"""
import os
import subprocess
import sys

from api_lib import REPO, Host


def main():
    build, bin_dir = sys.argv[1], os.path.join(sys.argv[2], "bin")
    document = os.path.join(REPO, "schema/openapi.json")
    rc = subprocess.call([os.path.join(bin_dir, "python"), "-m", "openapi_spec_validator", document])
    host = Host(build)
    try:
        host.ask("POST", "/runs", {"pipeline": "demo"})
        host.until("/runs/1", lambda r: r["state"] == "over")
        with open(host.work + "/schemathesis.toml", "w") as f:
            f.write("[parameters]\nseq = 0\n")  # a request with another one waits for news
        rc |= subprocess.call([
            os.path.join(bin_dir, "schemathesis"), "--config-file", host.work + "/schemathesis.toml", "run", document, "--url", "http://127.0.0.1:%d/api/v1" % host.port,
            "-H", "Authorization: Bearer " + host.tokens["admin"], "--max-examples", sys.argv[3] if len(sys.argv) > 3 else "20",
            "--checks", "not_a_server_error,response_schema_conformance,content_type_conformance",
            "--exclude-path", "/stream", "--exclude-path", "/logout", "--exclude-path-regex", "/tokens/", "--phases", "fuzzing",
            "--workers", "1", "--seed", "1"],
            cwd=host.work)  # it leaves files
        rc |= host.host.poll() is not None
    finally:
        host.end()
    sys.exit(rc)


main()
