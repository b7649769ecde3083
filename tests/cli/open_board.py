"""What TensorBoard reads of a folder of event files, for in_python_test.cpp.

    open_board.py DIR      prints a JSON object: of each tag of a scalar the steps, times and values, of each tag of
                           a histogram the steps and the messages, of each tag of a text the steps and the texts, and
                           the options of the run as the plugin hparams reads them

Exit status 77: this machine lacks the package.
"""
import dataclasses
import json
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator as ea
    from tensorboard.plugins.hparams import metadata as hparams
    from tensorboard.util import tensor_util
except ImportError:
    sys.exit(77)

board = ea.EventAccumulator(sys.argv[1], {ea.SCALARS: 0, ea.HISTOGRAMS: 0, ea.TENSORS: 0})  # 0: all events of each tag
board.Reload()
tags = board.Tags()


def options():
    for content in board.PluginTagToContent("hparams").values():
        told = hparams.parse_session_start_info_plugin_data(content)
        return {name: getattr(value, value.WhichOneof("kind")) for name, value in told.hparams.items()}


print(json.dumps({
    "scalars": {tag: [[e.step, e.wall_time, e.value] for e in board.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {tag: [[e.step, dataclasses.asdict(e.histogram_value)] for e in board.Histograms(tag)]
                   for tag in tags["histograms"]},
    "texts": {tag: [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in board.Tensors(tag)]
              for tag in board.PluginTagToContent("text")},
    "options": options(),
}))
