#!/usr/bin/env python3
"""Steps per second of TensorFlow with a parameter server: tf.distribute's ParameterServerStrategy by gRPC on loopback.

A process holds the variables, each worker is a process, and this one deals the work out as their coordinator. A task
may be several steps in a loop of the graph, as TensorFlow's tutorial advises. Prints one line of JSON.
"""

import argparse
import os
import socket
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")

import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

import mlp_run  # noqa: E402
import pictures  # noqa: E402

TOGETHER = 100  # steps of a worker that are dealt out before any is waited for


def set_up():
    """One thread of arithmetic in each process, and another that waits for messages."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def serve(job, index, cluster):
    """A worker, or the process with the variables, until it is killed."""
    set_up()
    tf.distribute.Server(cluster, job_name=job, task_index=index, protocol="grpc").join()


def dataset_of(folder):
    """Batches gathered from the shuffled set in the step that uses them."""
    samples, labels = pictures.read(folder)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.deterministic = True

    def batches():
        kept, classes = tf.constant(samples), tf.constant(labels.astype(numpy.int32))
        return (tf.data.Dataset.range(len(labels)).shuffle(len(labels)).repeat().batch(mlp_run.BATCH)
                .map(lambda chosen: (tf.gather(kept, chosen), tf.gather(classes, chosen))).with_options(options))

    return batches


def make_variables():
    """Weights of each layer, and the momentum of each."""
    draw = numpy.random.default_rng(1)
    weights = []
    for inputs, outputs in zip(mlp_run.WIDTHS, mlp_run.WIDTHS[1:]):
        bound = inputs ** -0.5
        for shape in ((inputs, outputs), (outputs,)):
            weights.append(tf.Variable(draw.uniform(-bound, bound, shape).astype(numpy.float32)))
    return weights, [tf.Variable(tf.zeros_like(w), trainable=False) for w in weights]


def make_task(weights, velocities, steps):
    def step(x, y):
        with tf.GradientTape() as tape:
            values = [tf.identity(w) for w in weights]
            tape.watch(values)
            x = tf.cast(x, tf.float32) * (1 / 255)
            for i in range(0, len(values), 2):
                x = (x if i == 0 else tf.nn.relu(x)) @ values[i] + values[i + 1]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))
        for w, v, g in zip(weights, velocities, tape.gradient(loss, values)):
            with tf.device(w.device):
                tf.raw_ops.ResourceApplyMomentum(var=w.handle, accum=v.handle, lr=mlp_run.LEARNING_RATE, grad=g,
                                                 momentum=mlp_run.MOMENTUM)
        return loss

    @tf.function
    def task(iterator):
        loss = 0.0
        for _ in tf.range(steps):
            loss = step(*next(iterator))
        return loss

    return task


def in_one_process(options):
    set_up()
    task = make_task(*make_variables(), options.steps)
    iterator = iter(dataset_of(options.data)())
    for _ in range(mlp_run.WARM_UP // options.steps):
        task(iterator)
    start, losses = time.perf_counter(), []
    while time.perf_counter() - start < options.seconds:
        losses.append(float(task(iterator)))
    return options.steps * len(losses) / (time.perf_counter() - start), losses


def coordinate(options, cluster):
    set_up()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        task = make_task(*make_variables(), options.steps)
    iterator = iter(coordinator.create_per_worker_dataset(dataset_of(options.data)))

    def do(tasks):
        results = [coordinator.schedule(task, args=(iterator,)) for _ in range(tasks)]
        coordinator.join()
        return results

    do(options.workers * mlp_run.WARM_UP // options.steps)
    start, results = time.perf_counter(), []
    while time.perf_counter() - start < options.seconds:
        results += do(options.workers * max(2, TOGETHER // options.steps))
    rate = options.steps * len(results) / (time.perf_counter() - start)
    return rate, [float(result.fetch()) for result in results[-mlp_run.KEPT:]]


def over_processes(options):
    cluster = {"worker": [free_address() for _ in range(options.workers)], "ps": [free_address()]}
    words = [f"{job}={','.join(addresses)}" for job, addresses in cluster.items()]
    servers = [subprocess.Popen([sys.executable, __file__, "--data", options.data, "--serve", job, str(index), *words])
               for job, addresses in cluster.items() for index in range(len(addresses))]
    try:
        return coordinate(options, cluster)
    finally:
        for server in servers:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mlp_run.add_arguments(parser)
    parser.add_argument("--steps", type=int, default=10, help="of a task")
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        job, index, *words = options.serve
        return serve(job, int(index), {name: addresses.split(",") for name, addresses in (w.split("=") for w in words)})
    rate, losses = (over_processes if options.workers else in_one_process)(options)
    mlp_run.tell(tf.__version__, rate, losses[-mlp_run.KEPT:])


if __name__ == "__main__":
    main()
