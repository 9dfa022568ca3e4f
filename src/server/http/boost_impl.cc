// What of Asio and Beast is no template, compiled once. Beast's refers to Asio's.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
