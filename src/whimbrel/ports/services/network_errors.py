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


class RouterNotFound(NotFound):
    """There is no such router."""


class FloatingIPNotFound(NotFound):
    """There is no such floating IP."""


class RouterInterfaceNotFound(NotFound):
    """The router has no such port."""


class RouterInterfaceNotFoundForSubnet(NotFound):
    """The router has no port on the subnet."""


class ExternalGatewayForFloatingIPNotFound(NotFound):
    """No router connects the port's subnet with the external network."""


class BadRequest(Invalid):
    """The request is not valid for routers and floating IPs."""


class InvalidRoutes(Invalid):
    """A router cannot have these routes."""


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


class QoSPolicyDefaultAlreadyExists(Conflict):
    """Another policy of the project is the default one."""


class QosRulesConflict(Conflict):
    """The policy already has such a rule."""


class PortBound(Conflict):
    """The MAC of a bound port cannot be changed."""


class RouterInUse(Conflict):
    """The router has interfaces."""


class RouterInterfaceInUseByFloatingIP(Conflict):
    """Floating IPs reach ports of the subnet by this interface."""


class RouterExternalGatewayInUseByFloatingIp(Conflict):
    """Floating IPs are reached by this gateway."""


class RouterInterfaceInUseByRoute(Conflict):
    """Routes of the router lead by this interface."""


class FloatingIPPortAlreadyAssociated(Conflict):
    """The fixed address has a floating IP of this network."""


class ExternalNetworkInUse(Conflict):
    """Routers have their gateway on the network."""


class DefaultExternalNetworkExists(Conflict):
    """Another external network is the default one."""


class ExternalIpAddressExhausted(Conflict):
    """The external network has no free IPv4 address."""


class GatewayIpInUse(Conflict):
    """A router has the address of the subnet's gateway."""


class PortInUse(Conflict):
    """Another device has the port."""


class ServicePortInUse(Conflict):
    """A port of a router or of a floating IP is deleted by these."""


class SubnetMismatchForPort(Conflict):
    """The port has no address of the subnet."""


class OverQuota(Conflict):
    """The project would have more than its quota."""
