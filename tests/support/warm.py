"""A `python` with torch already imported, so that a pipeline of a hundred short jobs imports torch only once.

    warm.py serve SOCKET     imports slow modules, then forks for each job until standard input is closed
    warm.py -m MODULE ...    is run by the `python` on PATH: passes the job to the server at the socket WARM
    warm.py SCRIPT.py ...    passes a script to the server

This project's code is imported only after the fork, so a job uses the code in its folder or on PYTHONPATH.
"""

import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import traceback

SLOW = """torch torch._dynamo numpy pandas matplotlib.figure matplotlib.backends.backend_agg networkx jinja2 jsonschema
    yaml sentencepiece sacrebleu sacremoses nltk safetensors.torch tensorboardX tabulate tqdm snakemake.cli"""
BYTES = 2**20  # more than a job's arguments and environment


def serve(address: str) -> None:
    """Import, print "ready", then run jobs. At the end, remove the socket's folder."""
    for name in SLOW.split():
        importlib.import_module(name)
    gc.freeze()  # jobs share the server's memory, and collect only their own objects
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended processes leave no zombies
        while server in select.select([server, sys.stdin], [], [])[0]:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                client.send(str(run(client)).encode())
                os._exit(0)  # a normal exit would take a second to visit all imported objects
            client.close()
    shutil.rmtree(os.path.dirname(address))


def run(client: socket.socket) -> int:
    """Act as `python` with the client's arguments, folder, environment and files. Return the exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, *_ = socket.recv_fds(client, BYTES, 3)
    arguments, folder, environment = json.loads(request)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    module = arguments[0] == "-m"
    sys.argv, sys.path[:1] = arguments[module:], [folder, *environment.get("PYTHONPATH", folder).split(os.pathsep)]
    sys.executable = environment["WARM"].replace("socket", "python")  # Snakemake starts scripts with this path
    code = 0
    try:
        if module:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def hand_over(arguments: list[str]) -> int:
    """Let the server run `python` with these arguments. Return the exit code, or 1 if the job was killed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(os.environ["WARM"])
        socket.send_fds(client, [json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()], [0, 1, 2])
        return int(client.recv(16) or 1)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    elif sys.argv[1] == "-m" or sys.argv[1].endswith(".py"):
        sys.exit(hand_over(sys.argv[1:]))
    else:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
