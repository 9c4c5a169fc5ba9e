/* clang-format off */
/*
 * Commands of Slurm that a login node runs for the engine, from protocol 3 on: a part of
 * protocol.h, which includes this file each time. 1 to 15 go both ways, 16 to 47 to the node, 48 to
 * 79 to the engine.
 */

/* Runs a command without a shell. argv[0] is the name of one of Slurm's (node/srv_pipe.c), found in
 * path and PATH, or flownode: this program. Answer: pipe_data against credit, then pipe_end. The
 * command is killed with its connection. */
FR_MESSAGE(34, PIPE_OPEN, pipe_open, fr_pipe_open)
    FR_FIELD(U64, ref)
    FR_FIELD(TEXTS, argv)
    FR_FIELD(TEXT, path)     /* a folder in front of PATH; "": none */
    FR_FIELD(I64, limit_ms)  /* it is killed after so long; 0: no limit */
FR_END
/* No further bytes for its stdin. No answer. */
FR_MESSAGE(35, PIPE_CLOSE, pipe_close, fr_pipe_close)
    FR_FIELD(U64, ref)
    FR_FIELD(BOOL, leave)    /* nothing more is sent of it; it is killed unless it ends soon */
FR_END
/* Bytes for the stdin of a command, at most FR_PIPE_WINDOW more than pipe_more has given back; or
 * bytes of its stdout. */
FR_MESSAGE(6, PIPE_DATA, pipe_data, fr_pipe_data)
    FR_FIELD(U64, ref) FR_FIELD(BYTES, bytes)
FR_END
/* The command has taken so many bytes: as many more may be sent. */
FR_MESSAGE(63, PIPE_MORE, pipe_more, fr_pipe_more)
    FR_FIELD(U64, ref) FR_FIELD(U64, bytes)
FR_END
/* It has ended, and all of its stdout was sent. */
FR_MESSAGE(64, PIPE_END, pipe_end, fr_pipe_end)
    FR_FIELD(U64, ref)
    FR_FIELD(I32, code)      /* exit status; 127: there is no such program; -1: text says why */
    FR_FIELD(TEXT, text)     /* why it was not started, or has no exit status */
    FR_FIELD(BYTES, errors)  /* the last bytes of its stderr, at most FR_PIPE_ERRORS */
FR_END
    /* clang-format on */
