// What an engine says of itself in its fingerprint, of the options it was opened with and of what came of them.
#pragma once

#include "contract/bom.h"
#include "contract/deployment.h"
#include "eadem/engine.h"
#include "kernels/device.h"
#include "weights/metadata.h"

namespace eadem::api {

// All but draft_model, whose weights the engine alone has at hand.
contract::Deployment deployment_of(const EngineOptions& options, const ModelInfo& info);

// How a deployment tells a device: the name that it was asked for by, what it is, its driver and runtime.
std::string device_name(const std::string& asked, const kernels::DeviceFacts& facts);

// All but the files.
contract::BomModel bom_model_of(const ModelInfo& info, const weights::Metadata& metadata);

}  // namespace eadem::api
