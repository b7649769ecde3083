#include <mailgrad/optim/cures/step_scale.hpp>

#include <mailgrad/optim/policies/hogwild.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/tensor/nearest_name.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

namespace mailgrad {

namespace {

using numbers = std::span<const double>;

double real(std::uint64_t n) { return static_cast<double>(n); }

class inverse_scale final : public step_scale {
public:
  static constexpr cure_form form{"inverse", "the step counts 1 / max(1, gap): SA-ASGD",
                                  "Zhang et al., IJCAI 2016"};
  inverse_scale(numbers, std::uint32_t) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return 1 / std::max(1.0, real(gap)); }
};

class dynsgd_scale final : public step_scale {
public:
  static constexpr cure_form form{"dynsgd", "the step counts 1 / (gap + 1)", "Jiang et al., SIGMOD 2017"};
  dynsgd_scale(numbers, std::uint32_t) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return 1 / (real(gap) + 1); }
};

class polynomial_scale final : public step_scale {
public:
  static constexpr cure_form form{"polynomial:A", "the step counts (gap + 1)^-A, A = 0.5: FedAsync",
                                  "Xie et al., 2019"};
  polynomial_scale(numbers n, std::uint32_t) : a_(n.empty() ? 0.5 : n[0]) {}
  std::string_view name() const noexcept override { return "polynomial"; }
  double factor(std::uint64_t gap) const noexcept override { return std::pow(real(gap) + 1, -a_); }

private:
  double a_;
};

class hinge_scale final : public step_scale {
public:
  static constexpr cure_form form{
      "hinge:A,B", "1 up to a gap of B, then 1 / (A (gap - B) + 1); 10,4: FedAsync", "Xie et al., 2019"};
  hinge_scale(numbers n, std::uint32_t) : a_(n.empty() ? 10 : n[0]), b_(n.size() < 2 ? 4 : n[1]) {}
  std::string_view name() const noexcept override { return "hinge"; }
  double factor(std::uint64_t gap) const noexcept override {
    return real(gap) <= b_ ? 1 : 1 / (a_ * (real(gap) - b_) + 1);
  }

private:
  double a_;
  double b_;
};

class mishchenko_scale final : public step_scale {
public:
  static constexpr cure_form form{"mishchenko", "the step counts N / max(N, gap) with N workers",
                                  "Mishchenko et al., NeurIPS 2022"};
  mishchenko_scale(numbers, std::uint32_t workers) : workers_(workers) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override {
    return workers_ / std::max(workers_, real(gap));
  }

private:
  double workers_;
};

class koloskova_scale final : public step_scale {
public:
  static constexpr cure_form form{"koloskova", "1 up to a gap of N workers, then 1 / gap",
                                  "Koloskova et al., NeurIPS 2022"};
  koloskova_scale(numbers, std::uint32_t workers) : workers_(workers) {}
  std::string_view name() const noexcept override { return form.text; }
  double factor(std::uint64_t gap) const noexcept override { return gap <= workers_ ? 1 : 1 / real(gap); }

private:
  std::uint64_t workers_;
};

struct known_cure {
  std::string_view name;
  cure_form form;
  std::size_t most_numbers;
  std::unique_ptr<step_scale> (*make)(numbers, std::uint32_t);
};

template <class Scale>
constexpr known_cure known_as(std::size_t most_numbers) {
  return {Scale::form.text.substr(0, Scale::form.text.find(':')), Scale::form, most_numbers,
          [](numbers n, std::uint32_t workers) -> std::unique_ptr<step_scale> {
            return std::make_unique<Scale>(n, workers);
          }};
}

constexpr std::array known{known_as<inverse_scale>(0),    known_as<dynsgd_scale>(0),
                           known_as<polynomial_scale>(1), known_as<hinge_scale>(2),
                           known_as<mishchenko_scale>(0), known_as<koloskova_scale>(0)};

constexpr std::string_view no_cure = "none";

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw std::invalid_argument("cure '" + std::string(text) + "': " + why);
}

const known_cure& find(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto found = std::ranges::find(known, name, &known_cure::name);
  if (found != known.end()) return *found;
  std::vector<std::string_view> names{no_cure};
  for (const known_cure& c : known) names.push_back(c.name);
  throw std::invalid_argument("cure '" + std::string(name) + "' is unknown; did you mean '" +
                              std::string(nearest_name(name, names)) + "'?");
}

std::vector<double> read_numbers(std::string_view text, const known_cure& c) {
  std::vector<double> all;
  std::size_t at = text.find(':');
  while (at != std::string_view::npos) {
    const std::size_t next = text.find(',', at + 1);
    const std::string_view word =
        text.substr(at + 1, next == std::string_view::npos ? std::string_view::npos : next - at - 1);
    double n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc{} || end != word.data() + word.size() || !(n >= 0) || !std::isfinite(n))
      fail(text,
           "'" + std::string(word) + "' is no number from 0 on; write it as " + std::string(c.form.text));
    all.push_back(n);
    at = next;
  }
  if (all.size() > c.most_numbers || (all.size() == 1 && c.most_numbers == 2))
    fail(text, "write it as " + std::string(c.form.text));
  return all;
}

} // namespace

std::vector<cure_form> cure_forms() {
  std::vector<cure_form> forms;
  forms.reserve(known.size());
  for (const known_cure& c : known) forms.push_back(c.form);
  return forms;
}

std::unique_ptr<step_scale> make_step_scale(std::string_view text, std::uint32_t workers) {
  if (text == no_cure) return nullptr;
  const known_cure& c = find(text);
  return c.make(read_numbers(text, c), workers);
}

void require_cure(std::string_view text, const std::vector<std::string_view>& policies,
                  std::uint32_t workers) {
  if (!make_step_scale(text, workers)) return;
  for (const std::string_view policy : policies)
    if (policy != hogwild_policy::policy_name && !make_policy(policy, workers)->always_fresh()) return;
  std::string names;
  for (const std::string_view policy : policies) names += (names.empty() ? "" : ", ") + std::string(policy);
  fail(text, policies.front() == hogwild_policy::policy_name
                 ? "under hogwild no shard sees a gradient; take async"
                 : "under " + names + " every gradient is fresh, so there is nothing to cure");
}

} // namespace mailgrad
