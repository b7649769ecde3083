"""What TensorBoard reads of a folder of event files, for tensorboard_in_python_test.cpp.

    open_board.py DIR      prints a JSON object: of each tag of a scalar the steps, times and values, and of each tag
                           of a histogram the steps and the messages

Exit status 77: this machine lacks the package.
"""
import dataclasses
import json
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator as ea
except ImportError:
    sys.exit(77)

board = ea.EventAccumulator(sys.argv[1], {ea.SCALARS: 0, ea.HISTOGRAMS: 0})  # 0: of each tag all events
board.Reload()
tags = board.Tags()
print(json.dumps({
    "scalars": {tag: [[e.step, e.wall_time, e.value] for e in board.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {tag: [[e.step, dataclasses.asdict(e.histogram_value)] for e in board.Histograms(tag)]
                   for tag in tags["histograms"]},
}))
