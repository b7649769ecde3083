#include <mailgrad/cli/commands/trained_model.hpp>

#include <mailgrad/cli/commands/train_options.hpp>

#include <mailgrad/cli/output/format_report.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

#include <exception>

namespace mailgrad {

void add_model_file(option_table& t, trained_args& w) {
  t.add("--model-file", w.model_file, path("FILE"), required,
        "The trained model: a file that 'mailgrad train --save' has written");
}

void add_model_of_weights(option_table& t, trained_args& w) {
  t.add("--model", w.model,
        "For a file of weights alone, which names no model: the model, as 'mailgrad train' takes it. Its "
        "samples and classes are those of --data");
}

void add_device(option_table& t, trained_args& w) {
  t.add("--device", w.device, shown,
        "Where the model is computed: cpu, or a GPU such as cuda:0. 'mailgrad devices' lists them");
}

void add_samples(option_table& t, trained_args& w, const std::string& what) {
  t.add("--data", w.data, what);
  t.add("--data-limit", w.data_limit, whole_number(1, std::uint64_t{1} << 20), shown,
        "The most memory, in GiB, that the samples of a file may take");
  t.title("How the data set is read");
  add_table_form(t, w.table);
  t.title();
}

namespace {

/// The card of the model that --model names, as if it had been trained on --data.
model_card card_as_told(const saved_weights& weights, const trained_args& w) {
  if (weights.card) reject("--model: '{}' names its model itself; leave --model out", w.model_file);
  if (w.data.empty())
    reject("--model: '{}' does not say what its model reads; name a data set by --data, and its samples are "
           "read as in training",
           w.model_file);
  open_options o;
  apply(w.table, o);
  o.limit.bytes = w.data_limit << 30;
  return card_for(model_text(w.model), open_data(w.data, o));
}

saved_weights load_with_model(const trained_args& w) {
  saved_weights weights = load_weights(w.model_file);
  if (!w.model.empty())
    weights.card = card_as_told(weights, w);
  else if (!weights.card)
    reject("'{}' names no model, as another program wrote it; test and predict take one by --model",
           w.model_file);
  return weights;
}

/// Refuses data of another kind than the model reads, which are read once more for that: as what they are.
void require_same_kind(const trained_args& w, const open_options& as_the_model, const model_request& reads) {
  open_options o;
  o.limit = as_the_model.limit;
  model_request found;
  try {
    found = request_for(open_data(w.data, o), 1);
  } catch (const std::exception&) {
    return; // what was wrong before says more
  }
  if (kind_of_samples(found) != kind_of_samples(reads))
    reject("'{}' reads {}, and '{}' has {}", w.model_file, format_samples(reads), w.data,
           format_samples(found));
}

} // namespace

predictor open_model(const trained_args& w) {
  const std::string without_stream = w.device.substr(0, w.device.find('/'));
  const device place = named_device(without_stream);
  if (without_stream != w.device || (place.kind == device_kind::cpu && place.index > 0))
    reject("--device {}: the whole host or a GPU computes, and no core or stream is chosen; name '{}'",
           w.device, place.kind == device_kind::cpu ? "cpu" : to_string(device{place.kind, place.index}));
  require_here(place);
  return predictor(load_with_model(w), place);
}

data_split open_samples(const trained_args& w, const model_card& card, lacking_row lacking) {
  const model_request& r = card.request;
  open_options o;
  apply(w.table, o);
  o.known = known_data{card.class_names, card.divisors, card.table, card.counts_from_zero};
  missing_values& missing = o.known->table.missing;
  if (missing == missing_values::drop && lacking == lacking_row::refused) missing = missing_values::refuse;
  if (lacking == lacking_row::refused) o.csv.answers = csv_answers::passed_over; // every row gets an answer
  o.classes = r.wanted == answer::a_class ? r.classes : 0;
  o.task = r.wanted == answer::a_number ? label_kind::numbers : label_kind::classes;
  if (r.features == feature_kind::tokens) o.window = r.sample_dims.size();
  if (r.nonzeros > 0) o.features = r.sample_dims.size();
  if (r.sample_dims.rank() == 3) {
    o.record_dims = r.sample_dims;
    o.channels = r.sample_dims[2] == 1 ? picture_channels::grey : picture_channels::rgb;
  }
  o.limit.bytes = w.data_limit << 30;
  data_split samples = [&] {
    try {
      return open_data(w.data, o);
    } catch (const std::exception&) {
      require_same_kind(w, o, r);
      throw;
    }
  }();
  say_line(in_words(*samples.reading));
  for (const std::string& remark : samples.remarks) say_warning(remark);
  return samples;
}

} // namespace mailgrad
