#!/bin/sh
# transformers 5.24.0: a config.json with rope_parameters (as version 5 writes it) to which somebody adds rope_scaling (as the
# pages of many models tell) loses its rope_theta: rope_scaling takes the whole place of rope_parameters, and theta falls
# back to the default of the class, 10000. With rope_theta at the top level, as version 4 wrote it, theta stays. Nothing is said.
. "$(dirname "$0")/lib.sh"
packages transformers==5.24.0

seen "rope_parameters alone: default 500000.0
rope_parameters and rope_scaling: linear 10000.0
rope_theta and rope_scaling: linear 500000.0
rope_theta and rope_parameters with another: default 123.0" << 'END'
import copy

from transformers import LlamaConfig

new = {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}
scaling = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
cases = {
    "rope_parameters alone": new,
    "rope_parameters and rope_scaling": {**new, **scaling},
    "rope_theta and rope_scaling": {"rope_theta": 500000.0, **scaling},
    "rope_theta and rope_parameters with another": {
        "rope_theta": 500000.0, "rope_parameters": {"rope_type": "default", "rope_theta": 123.0}},
}
for name, config in cases.items():
    rope = LlamaConfig.from_dict(copy.deepcopy(config)).rope_parameters
    print(f"{name}: {rope['rope_type']} {rope['rope_theta']}")
END
