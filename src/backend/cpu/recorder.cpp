#include "backend/cpu/recorder.h"

#include <algorithm>
#include <sstream>

#include "base/to_size.h"

namespace weft::cpu {

std::string kind_of(const std::string& description, int layer) {
  // "matmul blk.3.ffn_down.weight + blk.3.x -> blk.3.y", "rows norm:blk.3.a quantise:blk.3.b": a launch's
  // results follow an arrow or a colon. A residual comes from elsewhere in the first layer.
  const std::string number = "." + std::to_string(layer) + ".";
  std::string kind, last;
  std::istringstream words(description);
  for (std::string word; words >> word && word != "->";) {
    word = word.substr(0, word.find(':'));
    if (const std::size_t at = word.find(number); layer != NodeTag::kNone && at != std::string::npos)
      word.erase(0, at + number.size());
    if (word.ends_with(".weight")) word.resize(word.size() - 7);
    if (last == "+" && word != "bias" && word != "activation") word = "residual";
    if (word != last) kind += (kind.empty() ? "" : " ") + word;
    last = word;
  }
  return kind;
}

Recorder::Recorder(Profile& profile, std::span<const std::string> names, int n_threads)
    : profile_(profile), threads_(to_size(n_threads)), start_(std::chrono::steady_clock::now()) {
  profile.n_threads = n_threads;
  for (const std::string& name : names) {
    auto& work = profile.work;
    auto found = std::find_if(work.begin(), work.end(), [&](const auto& w) { return w.name == name; });
    if (found == work.end()) found = work.insert(work.end(), {.name = name});
    work_of_.push_back(to_size(found - work.begin()));
  }
  for (Thread& thread : threads_) {
    thread.times.resize(names.size());
    // Tasks of a phase may alternate, but a step whose spans don't fit is not worth memory while it runs.
    if (profile.max_spans > 0) thread.spans.reserve(2 * names.size());
  }
}

void Recorder::begin_step() {
  step_begin_ = now();
  for (Thread& thread : threads_) {
    thread.last_end = step_begin_;
    thread.last_launch = 0;
    thread.spans.clear();
  }
}

void Recorder::tasks_end(int thread, std::size_t launch) {
  Thread& t = threads_[to_size(thread)];
  const double end = now();
  t.times[launch].busy += end - t.tasks_begin;
  t.times[t.last_launch].wait += t.tasks_begin - t.last_end;
  const bool goes_on = !t.spans.empty() && t.last_launch == launch;
  if (goes_on) {
    t.spans.back().end = end;
  } else if (t.spans.size() < t.spans.capacity()) {
    t.spans.push_back(
        {static_cast<std::int32_t>(work_of_[launch]), thread, profile_.n_steps, t.tasks_begin, end});
  }
  t.last_end = end;
  t.last_launch = launch;
}

void Recorder::end_step(std::size_t n_phases) {
  const double end = now();
  for (Thread& thread : threads_) {
    thread.times[thread.last_launch].wait += end - thread.last_end;
    for (std::size_t i = 0; i < thread.times.size(); ++i) {
      Profile::Work& work = profile_.work[work_of_[i]];
      work.busy_seconds += thread.times[i].busy;
      work.wait_seconds += thread.times[i].wait;
      work.seconds += (thread.times[i].busy + thread.times[i].wait) / static_cast<double>(threads_.size());
      thread.times[i] = {};
    }
    const std::size_t room = profile_.max_spans - std::min(profile_.max_spans, profile_.spans.size());
    const auto n = static_cast<std::ptrdiff_t>(std::min(room, thread.spans.size()));
    profile_.spans.insert(profile_.spans.end(), thread.spans.begin(), thread.spans.begin() + n);
  }
  profile_.seconds += end - step_begin_;
  ++profile_.n_steps;
  profile_.n_phases += static_cast<std::int64_t>(n_phases);
}

void Recorder::count(std::size_t launch, const Work& work) {
  Profile::Work& total = profile_.work[work_of_[launch]];
  ++total.calls;
  total.bytes += work.bytes;
  total.multiply_adds += work.multiply_adds;
}

}  // namespace weft::cpu
