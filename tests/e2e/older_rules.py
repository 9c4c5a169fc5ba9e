"""Makes of the newest run of a home one that flowrun stored before rules 2 of pipeline files.

usage: older_rules.py HOME NEW_TEXT OLD_TEXT [RULES]

The stored file is the run's, with each line of NEW_TEXT replaced by the same line of OLD_TEXT; what
says its rules and folder goes, as a store of that time has neither (or RULES is what it says).
"""
import hashlib
import json
import os
import sqlite3
import sys

home, new, old = sys.argv[1], open(sys.argv[2]).read(), open(sys.argv[3]).read()
db = sqlite3.connect(home + "/state.db", isolation_level=None)
no, params, hash_ = db.execute("SELECT no, params, spec_hash FROM run ORDER BY no DESC").fetchone()
doc = json.loads(params)
doc.pop("folder")
doc.pop("rules")
if len(sys.argv) > 4:
    doc["rules"] = int(sys.argv[4])
assert open(f"{home}/blobs/{hash_}").read() == new
hash_ = hashlib.sha256(old.encode()).hexdigest()
with open(f"{home}/blobs/{hash_}", "w") as f:
    f.write(old)
os.chmod(f"{home}/blobs/{hash_}", 0o600)
db.execute("UPDATE run SET params = ?, spec_hash = ? WHERE no = ?", (json.dumps(doc), hash_, no))
