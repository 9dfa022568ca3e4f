// What of Beast is no template, compiled once.
#include <boost/beast/src.hpp>
