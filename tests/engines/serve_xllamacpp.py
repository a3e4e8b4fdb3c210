"""llama.cpp's server by way of the package xllamacpp: `serve_xllamacpp.py MODEL PORT`."""

import sys
import time

import xllamacpp  # type: ignore[import-not-found]  # Of the engine's own Python, if at all.


def main() -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = sys.argv[1]
    parameters.port = int(sys.argv[2])
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
