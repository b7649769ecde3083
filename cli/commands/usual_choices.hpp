#pragma once

#include <mailgrad/cli/commands/train_words.hpp>

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/tensor/device.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace mailgrad {

/// The words of a command that leaves rule and devices open. The words of a recording, of a checkpoint and of
/// the lab are plain train_words: where they name no rule and no devices, these are sgd and cpu:0, as such
/// commands meant before there was a choice.
train_words open_words();

/// Writes into the words what a new run takes where its command left it open, so that recordings and
/// checkpoints say it: adam, with which all built-in models learn (docs/models.md), and for workers of this
/// program each card, or else each core that the process may use. --workers has as many devices, in turns.
/// Workers on such devices take sync, since adam bears little staleness: eight workers under async spoil it.
train_words with_usual_choices(train_words w, const CLI::App& parser);

/// Makes a mini-batch that the command left open smaller where the training set has fewer samples: each
/// worker has one of them in a pass. The words that a recording and a checkpoint keep then name it.
void fit_usual_batch(const train_words& w, training_options& o, std::size_t samples);

/// The same on cores, for a run that no card can train.
train_words with_usual_cores(train_words w);

/// Each card that answers and is new enough, or else `cores`.
std::vector<device> usual_devices(const cuda::runtime::found_cards& found, std::vector<device> cores);

/// "adam at 0.001 (default), sync (default) on 2 cores", with the size of a mini-batch that was made smaller
std::string choices_in_words(const train_words& w, const training_options& o);

} // namespace mailgrad
