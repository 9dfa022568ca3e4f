// One request in company.
#pragma once

#include <memory>
#include <vector>

#include "audit/black_box/presence.h"
#include "audit/black_box/traffic.h"

namespace eadem::audit::black_box {

// Who is sent, and when.
struct Meeting {
  std::vector<Ask> before;  // each has begun to answer, if the endpoint takes so many at once, when the request is sent
  Ask request;
  std::vector<Ask> after;    // sent once the request has begun to answer
  bool part_midway = false;  // half of those before go away once the request has a few tokens
  bool to_the_end = false;   // the answers of all are wanted; otherwise those that are left go away at the end
};

struct Met {
  std::shared_ptr<Sent> request;
  std::vector<std::shared_ptr<Sent>> before, after;
  Presence presence;
};

// Carries it out. After an interrupt the request may not be done.
Met meet(Traffic& traffic, const Meeting& meeting);

}  // namespace eadem::audit::black_box
