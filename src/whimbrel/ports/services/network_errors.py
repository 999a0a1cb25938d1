"""What the network service says no with. The names are Neutron's: its clients tell errors apart by them."""

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
    """What is asked for makes no sense here."""


class RevisionNumberConstraintFailed(Conflict):
    """It has been changed since the client saw it."""


class NetworkInUse(Conflict):
    """The network has ports."""


class SegmentInUse(Conflict):
    """The segment has subnets, or is its network's only one."""


class VlanIdInUse(Conflict):
    """Another network has this VLAN, or this physical network for itself."""


class NoNetworkAvailable(Conflict):
    """All identifiers of this type of network are given out."""


class SubnetInUse(Conflict):
    """Ports have addresses of the subnet."""


class GatewayConflictWithAllocationPools(Conflict):
    """The gateway's address is in a range that is given out."""


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
    """Nothing at this host can connect the port."""


class SecurityGroupInUse(Conflict):
    """Ports are in the group."""


class SecurityGroupRuleExists(Conflict):
    """The group has this rule."""


class SecurityGroupCannotRemoveDefault(Conflict):
    """Every project has its default group."""


class SecurityGroupDefaultAlreadyExists(Conflict):
    """The name "default" is that of the project's own group."""


class QosPolicyInUse(Conflict):
    """Networks or ports have the policy."""


class QosRulesConflict(Conflict):
    """The policy has such a rule."""


class PortBound(Conflict):
    """What is bound at a host keeps its MAC."""
