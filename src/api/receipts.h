// Receipts of answers (contract/receipt.h), and the request that a receipt speaks of.
#pragma once

#include <string>

#include "contract/receipt.h"
#include "eadem/engine.h"

namespace eadem::api {

// Why this engine gives no receipts: in free mode nobody could compute the answer again. Ok where it does.
Result<void> check_receipts(const ModelInfo& info);

// Whether this answer gets one: it ended by itself (stop or length), so that computing it again ends where it did.
bool has_receipt(const Completion& answer);

// What there is to sign. `request`: as submitted, with Request::receipt; `answer` has_receipt.
contract::Receipt make_receipt(const Engine& engine, const Request& request, const Completion& answer);

// The request that gives the answer again, its step hashes included. Errors: parameters that cannot be read.
Result<Request> request_of(const contract::Receipt& receipt);

}  // namespace eadem::api
