#pragma once

#include <mailgrad/cli/report/gnuplot.hpp>
#include <mailgrad/cli/report/run_figures.hpp>

#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// A heading and the pictures below it.
struct page_section {
  std::string title;
  std::vector<picture> pictures;
};

/// The pictures of these runs, as the page shows them.
std::vector<page_section> sections_of(std::span<const run_figures> runs);

/// One HTML page with the figures of these runs side by side, their pictures and their switches of policy. It
/// loads nothing from elsewhere, runs no script, and holds every text of a report as text.
///
/// Errors  as draw().
std::string page_of(std::span<const run_figures> runs, std::span<const page_section> sections);

} // namespace mailgrad
