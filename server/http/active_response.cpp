#include "http/active_response.h"

#include <array>
#include <charconv>
#include <exception>
#include <utility>

namespace weft::server {
namespace {

bool has_no_body(int status) { return status / 100 == 1 || status == 204 || status == 304; }

class HeldExchange final : public Exchange {
 public:
  explicit HeldExchange(std::shared_ptr<ActiveResponse> answer) : response_(std::move(answer)) {}
  ~HeldExchange() override { response_->let_go(); }
  HeldExchange(const HeldExchange&) = delete;
  HeldExchange& operator=(const HeldExchange&) = delete;

  const HttpRequest& request() const override { return response_->request(); }
  void send(HttpResponse answer) override { response_->send(std::move(answer)); }
  void begin(int status, std::string content_type, HttpHeaders headers) override {
    response_->begin(status, content_type, headers);
  }
  void write(std::string piece) override { response_->write(piece); }
  void end() override { response_->end(); }
  void abort() override { response_->abort(); }
  std::size_t n_unsent() const override { return response_->n_unsent(); }
  std::size_t n_written() const override { return response_->n_written(); }
  bool closed() const override { return response_->closed(); }
  void on_closed(std::function<void()> call) override { response_->on_closed(std::move(call)); }
  void on_drained(std::function<void()> call) override { response_->on_drained(std::move(call)); }

 private:
  std::shared_ptr<ActiveResponse> response_;
};

}  // namespace

void Mailbox::add(std::shared_ptr<ActiveResponse> answer) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  mail_.answers.push_back(std::move(answer));
  wake();
}

void Mailbox::add(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  mail_.calls.push_back(std::move(call));
  wake();
}

void Mailbox::wake() {
  if (awake_) return;
  wake_();
  awake_ = true;
}

Mailbox::Mail Mailbox::take() {
  const std::lock_guard lock(mutex_);
  awake_ = false;
  return std::exchange(mail_, {});
}

void Mailbox::close() {
  Mail dropped;  // Freed without the lock: it may hold exchanges that let go.
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  dropped = std::exchange(mail_, {});
}

BodyShare& BodyShare::operator=(BodyShare&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(held_, other.held_);
  return *this;
}

BodyShare::~BodyShare() {
  if (budget_) budget_->held -= held_;
}

bool BodyShare::grow(std::size_t bytes) {
  if (!budget_) return true;
  if (budget_->held.fetch_add(bytes) + bytes > budget_->most) {
    budget_->held -= bytes;
    return false;
  }
  held_ += bytes;
  return true;
}

ActiveResponse::ActiveResponse(HttpRequest request, BodyShare body, ResponseTerms terms,
                               std::shared_ptr<Mailbox> mailbox)
    : request_(std::move(request)),
      body_(std::move(body)),
      terms_(std::move(terms)),
      mailbox_(std::move(mailbox)) {}

void ActiveResponse::announce() {
  if (!std::exchange(announced_, true)) mailbox_->add(shared_from_this());
}

void ActiveResponse::add_head(int status, std::string_view content_type, const HttpHeaders& headers,
                              Framing framing, std::size_t length) {
  framing_ = has_no_body(status) ? Framing::kNone : framing;
  keep_alive_ = terms_.keep_alive && framing != Framing::kClose && !mailbox_->draining.load();
  add_bytes(head_text({.status = status,
                       .content_type = content_type,
                       .headers = &headers,
                       .common = &mailbox_->headers,
                       .own = &terms_.headers,
                       .framing = framing_,
                       .length = length,
                       .keep_alive = keep_alive_,
                       .old_client = terms_.old_client}));
}

void ActiveResponse::add_bytes(std::string_view bytes) {
  bytes_ += bytes;
  n_written_ += bytes.size();
  if ((n_unsent_ += bytes.size()) > terms_.high_water) high_ = true;
}

void ActiveResponse::send(HttpResponse answer) {
  const std::lock_guard lock(mutex_);
  if (closed() || (phase_ != Phase::kNew && phase_ != Phase::kLetGo)) return;
  add_head(answer.status, answer.content_type, answer.headers, Framing::kLength, answer.body.size());
  if (!terms_.head_only && framing_ != Framing::kNone) add_bytes(answer.body);
  phase_ = Phase::kEnded;
  announce();
}

void ActiveResponse::begin(int status, std::string_view content_type, const HttpHeaders& headers) {
  const std::lock_guard lock(mutex_);
  if (closed() || phase_ != Phase::kNew) return;
  add_head(status, content_type, headers, terms_.old_client ? Framing::kClose : Framing::kChunks, 0);
  phase_ = Phase::kStreaming;
  announce();
}

void ActiveResponse::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  // An empty chunk would be the end of the body.
  if (closed() || phase_ != Phase::kStreaming || piece.empty()) return;
  if (terms_.head_only || framing_ == Framing::kNone) return;
  if (framing_ == Framing::kChunks) {
    std::array<char, 20> size{};
    char* const end = std::to_chars(size.data(), size.data() + size.size(), piece.size(), 16).ptr;
    add_bytes({size.data(), end});
    add_bytes("\r\n");
  }
  add_bytes(piece);
  if (framing_ == Framing::kChunks) add_bytes("\r\n");
  announce();
}

void ActiveResponse::end() {
  const std::lock_guard lock(mutex_);
  if (closed() || phase_ != Phase::kStreaming) return;
  if (framing_ == Framing::kChunks && !terms_.head_only) add_bytes("0\r\n\r\n");
  phase_ = Phase::kEnded;
  announce();
}

void ActiveResponse::abort() {
  const std::lock_guard lock(mutex_);
  if (closed() || (phase_ != Phase::kNew && phase_ != Phase::kStreaming)) return;
  phase_ = Phase::kAborted;
  announce();
}

void ActiveResponse::let_go() {
  const std::lock_guard lock(mutex_);
  if (closed() || (phase_ != Phase::kNew && phase_ != Phase::kStreaming)) return;
  phase_ = phase_ == Phase::kNew ? Phase::kLetGo : Phase::kAborted;
  announce();
}

void ActiveResponse::on_closed(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (closed()) {
    if (phase_ == Phase::kNew || phase_ == Phase::kStreaming) mailbox_->add(std::move(call));
  } else if (phase_ == Phase::kNew || phase_ == Phase::kStreaming) {
    on_closed_ = std::move(call);
  }
}

void ActiveResponse::on_drained(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (!closed() && (phase_ == Phase::kNew || phase_ == Phase::kStreaming)) on_drained_ = std::move(call);
}

ActiveResponse::Next ActiveResponse::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  announced_ = false;
  bytes.swap(bytes_);
  switch (phase_) {
    case Phase::kEnded:
      return keep_alive_ ? Next::kEnd : Next::kClose;
    case Phase::kAborted:
      return Next::kClose;
    case Phase::kLetGo:
      return Next::kUnasked;
    case Phase::kNew:
    case Phase::kStreaming:
      break;
  }
  return Next::kMore;
}

void ActiveResponse::sent(std::size_t bytes) {
  std::function<void()> drained;
  {
    const std::lock_guard lock(mutex_);
    n_unsent_ -= bytes;
    if (high_ && n_unsent_ < terms_.low_water) {
      high_ = false;
      drained = on_drained_;
    }
  }
  call_guarded(drained);
}

bool ActiveResponse::ended() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kEnded || phase_ == Phase::kAborted;
}

bool ActiveResponse::probe() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kNew && !terms_.old_client) {
    add_bytes("HTTP/1.1 100 Continue\r\n\r\n");
  } else if (phase_ == Phase::kStreaming && framing_ == Framing::kChunks && !terms_.head_only) {
    add_bytes("0");  // Sizes of chunks may begin with zeros.
  } else {
    return phase_ != Phase::kNew && phase_ != Phase::kStreaming;
  }
  announce();
  return true;
}

void ActiveResponse::gone() {
  // Calls may hold the last of an exchange, which would come back here: they are freed without the lock.
  std::function<void()> closed, drained;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    bytes_.clear();
    n_unsent_ = 0;
    closed = std::exchange(on_closed_, nullptr);
    drained = std::exchange(on_drained_, nullptr);
    if (phase_ != Phase::kNew && phase_ != Phase::kStreaming) closed = nullptr;
  }
  call_guarded(closed);
}

void ActiveResponse::finish() {
  std::function<void()> closed, drained;
  const std::lock_guard lock(mutex_);
  closed = std::exchange(on_closed_, nullptr);
  drained = std::exchange(on_drained_, nullptr);
}

void call_guarded(const std::function<void()>& call) {
  if (!call) return;
  try {
    call();
  } catch (const std::exception&) {
    // No caller could handle it.
  }
}

std::shared_ptr<Exchange> make_exchange(std::shared_ptr<ActiveResponse> answer) {
  return std::make_shared<HeldExchange>(std::move(answer));
}

}  // namespace weft::server
