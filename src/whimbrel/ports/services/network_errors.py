"""Errors of the network service. The names are Neutron's, by which its clients distinguish errors."""

from whimbrel.domain.errors import Conflict, Invalid, NotFound


class NetworkNotFound(NotFound):
    """There is no such network."""


class SegmentNotFound(NotFound):
    """There is no such segment."""


class SubnetNotFound(NotFound):
    """There is no such subnet."""


class PortNotFound(NotFound):
    """There is no such port."""


class PortBindingNotFound(NotFound):
    """The port has no binding to this host."""


class SecurityGroupNotFound(NotFound):
    """There is no such security group."""


class SecurityGroupRuleNotFound(NotFound):
    """There is no such rule of a security group."""


class QosPolicyNotFound(NotFound):
    """There is no such policy."""


class QosRuleNotFound(NotFound):
    """There is no such rule of a policy."""


class InvalidInput(Invalid):
    """The request is not valid here."""


class RevisionNumberConstraintFailed(Conflict):
    """The record has been changed since the client read it."""


class NetworkInUse(Conflict):
    """The network has ports."""


class SegmentInUse(Conflict):
    """The segment has subnets, or is its network's only one."""


class VlanIdInUse(Conflict):
    """Another network has this VLAN, or this whole physical network."""


class NoNetworkAvailable(Conflict):
    """All segmentation ids of this network type are in use."""


class SubnetInUse(Conflict):
    """Ports have addresses of the subnet."""


class GatewayConflictWithAllocationPools(Conflict):
    """The gateway's address is in an allocation pool."""


class IpAddressGenerationFailure(Conflict):
    """No address is left."""


class IpAddressAlreadyAllocated(Conflict):
    """Another port has the address."""


class MacAddressInUse(Conflict):
    """Another port of the network has the MAC."""


class PortBindingAlreadyExists(Conflict):
    """The port has a binding to this host."""


class PortBindingAlreadyActive(Conflict):
    """This binding is the active one."""


class PortBindingError(Conflict):
    """Nothing on this host can connect the port."""


class SecurityGroupInUse(Conflict):
    """Ports are in the group."""


class SecurityGroupRuleExists(Conflict):
    """The group already has this rule."""


class SecurityGroupCannotRemoveDefault(Conflict):
    """The default group of a project cannot be removed."""


class SecurityGroupDefaultAlreadyExists(Conflict):
    """The name "default" is reserved for the project's own group."""


class QosPolicyInUse(Conflict):
    """Networks or ports have the policy."""


class QosRulesConflict(Conflict):
    """The policy already has such a rule."""


class PortBound(Conflict):
    """The MAC of a bound port cannot be changed."""
